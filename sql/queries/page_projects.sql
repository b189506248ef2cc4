-- purpose: the projects and environments that targets name: what the filters offer.
-- grain: one row per project and environment; either may be NULL.
SELECT DISTINCT project, environment FROM target WHERE gone_at IS NULL ORDER BY ALL
