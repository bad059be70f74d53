"""Find-db and perf-db: records as text, system files, user files, where they lie."""
