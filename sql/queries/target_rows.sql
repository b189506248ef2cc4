-- purpose: all targets, those that are gone included
-- grain: target
SELECT * FROM target ORDER BY target
