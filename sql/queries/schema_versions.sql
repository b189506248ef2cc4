-- purpose: migrations applied, oldest first
-- grain: one migration
SELECT version, file_name, applied_at FROM schema_version ORDER BY version
