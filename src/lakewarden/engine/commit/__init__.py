"""Publishing changes of tables: what is asked, new snapshots, and the ways to commit them."""
