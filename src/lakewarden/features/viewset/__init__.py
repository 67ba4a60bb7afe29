"""View sets: named materialisations of source data into partitions, each with the schema hash it was written with."""

VERBS = (
    "list",
    "show",
    "partitions",
    "incompatible",
    "outdated",
    "register",
    "materialize",
    "regenerate",
    "retire",
    "restore",
    "heal",
)
SIDE_TABLES = {"__empty": "view_instance_id"}
OWN_COLUMNS = ("view_instance_id",)
