-- purpose: raw rows of host_sample past retention go
-- parameters: before (UTC)
DELETE FROM host_sample WHERE ts < $before
