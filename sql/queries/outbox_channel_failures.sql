-- purpose: how many tries in a row did not get through to a channel
-- parameters: channel
-- grain: channel
SELECT failures FROM channel WHERE channel = $channel
