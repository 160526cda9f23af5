"""What starts ranks on several hosts. One engine a file; ``engine.py`` is the contract, ``catalog.py`` the
list.
"""
