"""One technique per file; ``base`` is the contract, ``catalog`` the list."""
