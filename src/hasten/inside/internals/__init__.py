"""What hasten uses of torch that torch does not document: only this package names it.

``parts.py`` lists all of it, with its purpose; where a torch lacks something, it is named in the error.
"""
