"""Files wherever they lie: on disk, in S3, in quarantine."""
