-- purpose: changes of findings past retention go
-- parameters: before (UTC)
DELETE FROM finding WHERE ts < $before
