"""The lake itself: catalogs and metadata by PyIceberg, rows by Spark, and the one place that commits."""
