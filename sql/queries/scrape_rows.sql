-- purpose: every try of one target, oldest first
-- parameters: target
-- grain: scrape
SELECT * FROM scrape WHERE target = $target ORDER BY ts
