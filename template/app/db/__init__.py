"""The database: engines, the one place that commits, column types, the database's clock."""
