-- purpose: a channel's row; a new run of infermeter tries one that failed at once, and any other within a minute
--          (the address or the clock may be mended; a Retry-After of seconds is kept)
-- parameters: channel, kind, now, run
INSERT INTO channel (channel, kind, state, failures, next_send_at, run)
VALUES ($channel, $kind, 'ok', 0, $now, $run)
ON CONFLICT (channel) DO UPDATE SET
  kind = excluded.kind, run = excluded.run,
  next_send_at = CASE
    WHEN channel.state = 'failed' THEN greatest(excluded.next_send_at, channel.last_error_at + INTERVAL 1 SECOND)
    ELSE least(channel.next_send_at, excluded.next_send_at + INTERVAL 1 MINUTE)
  END
WHERE channel.run <> excluded.run
