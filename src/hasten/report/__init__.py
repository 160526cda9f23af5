"""Records in, text out. No decisions are taken here."""
