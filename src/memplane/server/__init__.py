"""HTTP: requests become calls, errors become statuses. No decisions here."""
