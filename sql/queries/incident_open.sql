-- purpose: incidents that are pending or firing
-- grain: incident
SELECT * FROM incident WHERE state IN ('pending', 'firing')
