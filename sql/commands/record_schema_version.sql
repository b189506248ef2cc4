-- purpose: note a migration as applied
-- parameters: version, file_name
INSERT INTO schema_version VALUES ($version, $file_name, (now() AT TIME ZONE 'UTC')::TIMESTAMP)
