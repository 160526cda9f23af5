"""How a job becomes processes. One engine per file; rendering is pure."""
