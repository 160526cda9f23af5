"""One technique a file; ``base`` is the contract, ``catalog`` the list."""
