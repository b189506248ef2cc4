-- purpose: the table that says which migrations this file has had
-- grain: one migration
CREATE TABLE IF NOT EXISTS schema_version (
  version    INTEGER PRIMARY KEY,
  file_name  VARCHAR NOT NULL,
  applied_at TIMESTAMP NOT NULL
)
