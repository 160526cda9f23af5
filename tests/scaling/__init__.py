"""What is predicted of more machines."""
