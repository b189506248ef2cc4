-- purpose: what targets' expositions turned out to be, what they lack, and by which names they were read
-- parameters: targets (names, each once), found_kinds, roles, missing, notes, found_names (JSON objects): lists of
--             that length
UPDATE target
SET found_kind = news.found_kind, role = news.role, missing = news.missing, notes = news.notes,
    found_names = news.found_names
FROM (
  SELECT
    unnest($targets::VARCHAR[]) AS target,
    unnest($found_kinds::VARCHAR[]) AS found_kind,
    unnest($roles::VARCHAR[]) AS role,
    unnest($missing::VARCHAR[][]) AS missing,
    unnest($notes::VARCHAR[][]) AS notes,
    unnest($found_names::VARCHAR[]) AS found_names
) AS news
WHERE target.target = news.target
