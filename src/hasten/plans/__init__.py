"""Plans on disk: read, written, and held against the machine and script that they are for."""
