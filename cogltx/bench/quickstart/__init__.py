"""A generated corpus of long documents, and a comparison that trains on it in minutes."""
