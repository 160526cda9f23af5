"""What hasten uses of torch that torch does not document: nothing else in hasten names it.

``parts.py`` lists all of it, with what it is for; a torch in which something is missing is told by name.
"""
