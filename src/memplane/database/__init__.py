"""The relational store: rows, transactions and their schema."""
