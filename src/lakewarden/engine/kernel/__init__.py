"""What Spark tasks run on files: read, drop rows, write, with metrics. It imports nothing else of Lakewarden."""
