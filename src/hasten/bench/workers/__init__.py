"""Workers as the coordinator sees them: started, spoken with, heard and ended, alone or several together."""
