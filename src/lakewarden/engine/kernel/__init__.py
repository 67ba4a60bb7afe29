"""What Spark tasks run on files: read, drop rows, write, with the metrics of what was written. It imports nothing of the house."""
