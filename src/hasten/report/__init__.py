"""Records in, text out. Nothing is decided here."""
