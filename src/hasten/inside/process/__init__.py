"""What any room may need of a process: its files, memory and children, its socket, and where it stands."""
