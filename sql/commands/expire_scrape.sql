-- purpose: raw rows of scrape past retention go
-- parameters: before (UTC)
DELETE FROM scrape WHERE ts < $before
