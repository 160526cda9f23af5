"""How a job becomes processes. One engine a file; rendering is pure."""
