"""Undocumented parts of torch that hasten uses: only this package names them.

``parts.py`` lists all of them with their purpose; if a torch lacks one, the error names it.
"""
