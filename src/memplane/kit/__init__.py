"""What every package needs and no package owns: files, JSON, retries, time, concurrency."""
