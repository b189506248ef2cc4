-- purpose: raw rows of probe past retention go
-- parameters: before (UTC)
DELETE FROM probe WHERE ts < $before
