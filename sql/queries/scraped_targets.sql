-- purpose: the targets that have ever been scraped
-- grain: target
SELECT DISTINCT target FROM scrape ORDER BY target
