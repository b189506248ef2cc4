"""What the pages say, in English and Simplified Chinese. Definitions on hover are in `app/words_about.py`.

A phrase is `key: (English, 中文)` with `{names}` for values. `key_one` is the English phrase for exactly
one, where that differs. Values must be safe Markdown already (`app.format.plain`).
"""

from __future__ import annotations

from app.words_about import ABOUT

LANGUAGES = {"en": 0, "zh": 1}

WORDS: dict[str, tuple[str, str]] = {
    # pages and controls
    "page_oncall": ("On-call", "值班"),
    "page_engines": ("Engines", "引擎"),
    "page_gpus": ("GPUs", "GPU"),
    "page_sources": ("Sources", "采集目标"),
    "range": ("Time range", "时间范围"),
    "range_15m": ("15 m", "15 分钟"),
    "range_1h": ("1 h", "1 小时"),
    "range_6h": ("6 h", "6 小时"),
    "range_24h": ("24 h", "24 小时"),
    "range_7d": ("7 d", "7 天"),
    "all_projects": ("all projects", "全部项目"),
    "all_environments": ("all environments", "全部环境"),
    "environment": ("Environment", "环境"),
    "language": ("Language", "语言"),
    "live": ("live", "实时"),
    "live_every": ("live, every {seconds} s", "实时，每 {seconds} 秒"),
    "hold": ("Hold this time", "固定当前时间"),
    "back_to_live": ("Back to live", "返回实时"),
    "earlier": ("Earlier", "更早"),
    "later": ("Later", "更晚"),
    "times_in": ("times in {zone}", "时区 {zone}"),
    "simulated": ("simulated fleet", "模拟数据"),
    "measure": ("Colour by", "着色指标"),
    # faults of a link
    "fault_choice": (
        "The link says {name}={value}; that is not one of {choices}, so it is left out.",
        "链接中的 {name}={value} 不在 {choices} 之内，已忽略。",
    ),
    "fault_text": (
        "The link's {name} is too long or holds signs that cannot be shown, so it is left out.",
        "链接中的 {name} 过长或含不可显示字符，已忽略。",
    ),
    "fault_time": (
        "The link's {name}={value} is not a time; write it like 2026-11-30T13:20:00Z. Showing the live view.",
        "链接中的 {name}={value} 不是时间，格式如 2026-11-30T13:20:00Z。现显示实时视图。",
    ),
    "fault_span": (
        (
            "The link's times do not make a stretch of up to 400 days (from must lie before to)."
            " Showing the live view."
        ),
        "链接中的时间段无效（from 须早于 to，且不超过 400 天）。现显示实时视图。",
    ),
    "fault_future": (
        "The link's from={value} lies in the future. Showing the live view.",
        "链接中的 from={value} 在未来。现显示实时视图。",
    ),
    "fault_ahead": (
        "The link's to={value} lies in the future: what is shown ends now.",
        "链接中的 to={value} 在未来：显示截至当前时间。",
    ),
    "fault_incident": (
        "The link names incident {value}, which is not known here (any more).",
        "链接中的告警 {value} 在此不存在（或已清除）。",
    ),
    "fault_unknown": (
        "No target has {name}={value}, so it is left out.",
        "没有采集目标属于 {name}={value}，已忽略。",
    ),
    # first lines
    "nothing_watched": ("Nothing is watched yet", "尚未采集任何目标"),
    "n_firing": ("**{n} firing**", "**{n} 个告警中**"),
    "n_watching": ("**{n} watching**", "**{n} 个观察中**"),
    "nothing_fires": ("**Nothing is firing**", "**无告警**"),
    "all_silent_since": (
        "**unknown: {n} of {all} targets silent since {time}**",
        "**未知：{all} 个目标中 {n} 个自 {time} 无响应**",
    ),
    "all_silent": ("**unknown: {n} of {all} targets silent**", "**未知：{all} 个目标中 {n} 个无响应**"),
    "nothing_fired_then": (
        "nothing was firing when they were last heard",
        "最后一次采集时无告警",
    ),
    "not_known_if_firing": ("whether anything fires is not known", "是否有告警未知"),
    "n_of_all": ("{n} of {all}", "{n}/{all}"),
    "n_engines": ("{n} engines", "{n} 个引擎"),
    "n_engines_one": ("{n} engine", "{n} 个引擎"),
    "n_gpus": ("{n} GPUs", "{n} 块 GPU"),
    "n_gpus_one": ("{n} GPU", "{n} 块 GPU"),
    "n_nodes": ("{n} nodes", "{n} 个节点"),
    "n_nodes_one": ("{n} node", "{n} 个节点"),
    "and": (" and ", "、"),
    "are_well": ("{what} well", "{what}正常"),
    "no_samples": ("no engine and no GPU has reported", "尚无引擎或 GPU 上报"),
    "n_targets_failing": ("{n} of {all} targets not answering", "{all} 个目标中 {n} 个无响应"),
    "data_as_of": ("data as of {time} ({age} ago)", "数据截至 {time}（{age} 前）"),
    "as_it_was_at": ("as it was at {time}", "{time} 时的状态"),
    "no_data_yet_short": ("no data yet", "暂无数据"),
    "gpus_on_nodes": ("{gpus} on {nodes}", "{nodes}，{gpus}"),
    "n_stale": ("{n} stale", "{n} 个数据过期"),
    "n_failing": ("{n} failing", "{n} 个失败"),
    "n_waiting_targets": ("{n} not scraped yet", "{n} 个尚未采集"),
    "n_gone": ("{n} gone", "{n} 个已移除"),
    "fullest": ("fullest: {name}, {value}", "显存最满：{name}，{value}"),
    "hottest": ("hottest: {name}, {value}", "最热：{name}，{value}"),
    "slowest": ("slowest: {name}, TTFT p95 {value}", "最慢：{name}，首 token 延迟 p95 {value}"),
    "requests_wait": ("{n} requests waiting", "{n} 个请求排队"),
    "requests_wait_one": ("{n} request waiting", "{n} 个请求排队"),
    "targets_ok": ("{n} of {all} targets answer", "{all} 个目标中 {n} 个正常"),
    "vram_of": ("VRAM {ratio} ({used} of {usable})", "显存 {ratio}（{used} / {usable}）"),
    "vram_not_known": ("VRAM is not reported", "未上报显存"),
    "firing_since": ("firing since {time}, {lasted}", "自 {time} 告警，持续 {lasted}"),
    "watching_since": ("watching since {time}, {lasted}", "自 {time} 观察，持续 {lasted}"),
    "ttft_p95_is": ("TTFT p95 {value} (5 min, n {n})", "首 token 延迟 p95 {value}（5 分钟，n {n}）"),
    "n_waiting": ("{n} waiting", "排队 {n}"),
    "n_running": ("{n} running", "运行 {n}"),
    # states
    "state": ("state", "状态"),
    "state_firing": ("firing", "告警中"),
    "state_watching": ("watching", "观察中"),
    "state_pending": ("watching", "观察中"),
    "state_resolved": ("resolved", "已恢复"),
    "state_later": ("begins later", "稍后开始"),
    "state_well": ("well", "正常"),
    "state_unknown": ("no fresh sample", "数据过期"),
    "severity_critical": ("critical", "严重"),
    "severity_warning": ("warning", "警告"),
    "severity_info": ("info", "提示"),
    "target_ok": ("ok", "正常"),
    "target_stale": ("stale", "数据过期"),
    "target_waiting": ("not scraped yet", "尚未采集"),
    "target_failing": ("failing", "失败"),
    "failing_over": ("failing for over {length}", "失败超过 {length}"),
    "failing_since": ("failing since {time}", "自 {time} 失败"),
    "gone_since": ("gone since {time}", "{time} 已移除"),
    # incidents and channels
    "since": ("since {time} · {lasted}", "自 {time} · {lasted}"),
    "open": ("open", "查看"),
    "never": ("never", "从未"),
    "no_data_since": ("no data since {time}", "自 {time} 无数据"),
    "channel_failed": (
        "Alerts do not reach **{channel}**: {error}. Last message sent: {last}.",
        "告警无法送达 **{channel}**：{error}。上次成功发送：{last}。",
    ),
    "channel_retrying": (
        "Messages to **{channel}** are being retried: {error}. Last message sent: {last}.",
        "正在重试向 **{channel}** 发送：{error}。上次成功发送：{last}。",
    ),
    "incident_then": (
        "{place}: {title}, peak {peak}, threshold {threshold}",
        "{place}：{title}，峰值 {peak}，阈值 {threshold}",
    ),
    "resolved_in_window": ("Resolved in this time: {n}", "本时段内已恢复：{n}"),
    "and_n_more_incidents": ("and {n} more incidents", "另有 {n} 个告警"),
    "and_n_more": ("and {n} more", "另有 {n} 个"),
    "and_n_more_nodes": ("And {n} more nodes, none of them worse.", "另有 {n} 个节点，均不更差。"),
    "peak": ("peak {value}", "峰值 {value}"),
    "incident_not_known": (
        "The link names incident {id}, which is not stored for this GPU (any more).",
        "链接中的告警 {id} 在此 GPU 上不存在（或已清除）。",
    ),
    # tables
    "engines_worst_first": (
        "Engines :gray[worst first · tick a row to open it]",
        "引擎 :gray[最差在前 · 勾选行首查看]",
    ),
    "gpus_worst_first": ("GPUs :gray[worst node first]", "GPU :gray[最差节点在前]"),
    "engine": ("engine", "引擎"),
    "model": ("model", "模型"),
    "trend_1h": ("last hour", "近一小时"),
    "waiting": ("waiting", "排队"),
    "running": ("running", "运行中"),
    "tokens_per_second": ("tok/s", "tok/s"),
    "verdict": ("verdict", "结论"),
    "frozen_for": (
        "no token for {time} while requests run: figures may be frozen",
        "请求运行中但 {time} 无 token：数据可能已冻结",
    ),
    "kind_of_gpu": ("model", "型号"),
    "target": ("target", "目标"),
    "kind": ("kind", "类型"),
    "role": ("role", "角色"),
    "role_gpu": ("GPU", "GPU"),
    "role_engine": ("engine", "引擎"),
    "role_router": ("router", "路由"),
    "role_gateway": ("gateway", "网关"),
    "project": ("project", "项目"),
    "last_scrape": ("last scrape", "上次采集"),
    "took": ("took", "耗时"),
    "size": ("size", "大小"),
    "lines": ("lines", "行数"),
    "rejected": ("rejected", "无法解析"),
    "unowned": ("unowned", "无归属"),
    "missing": ("missing", "缺失"),
    "missing_and_odd": (
        "Missing and odd :gray[what targets do not say]",
        "缺失与异常 :gray[目标未提供的指标]",
    ),
    "does_not_say": ("does not say {names}", "未提供 {names}"),
    # one GPU
    "all_gpus": ("all GPUs", "全部 GPU"),
    "driver": ("driver", "驱动"),
    "slowed_now": ("slowed by", "降频原因"),
    "nothing_slows": ("nothing", "无"),
    "xid_none": ("none", "无"),
    "engines_on_gpu": ("Engines on this GPU:", "此 GPU 上的引擎："),
    "no_engine_on_gpu": ("No engine is configured to use this GPU.", "没有引擎配置为使用此 GPU。"),
    "used": ("used", "已用"),
    "free": ("free", "空闲"),
    "reserved": ("reserved", "保留"),
    "total": ("total", "总量"),
    "vram_ratio": ("VRAM used", "显存使用率"),
    "memory": ("memory", "显存"),
    "of_total": ("total {total}", "总量 {total}"),
    "measure_vram": ("VRAM", "显存"),
    "measure_utilization": ("utilisation", "利用率"),
    "measure_temperature": ("temperature", "温度"),
    "measure_power": ("power", "功耗"),
    "utilization": ("utilisation", "利用率"),
    "sm_active": ("SM active", "SM 活跃"),
    "tensor_active": ("tensor active", "Tensor 活跃"),
    "graphics_active": ("engine active", "引擎活跃"),
    "clamped": ("over 100 % reported: shown as 100 %", "上报超过 100 %，按 100 % 显示"),
    "power_limit": ("power limit", "功耗上限"),
    "clocks": ("clocks", "时钟频率"),
    "throttle": ("throttling", "降频"),
    "throttle_idle": ("idle", "空闲"),
    "throttle_setting": ("clock setting", "应用时钟设置"),
    "throttle_power_cap": ("power cap (software)", "功耗限制（软件）"),
    "throttle_hw_slowdown": ("hardware slowdown", "硬件降频"),
    "throttle_sync_boost": ("sync boost", "同步加速"),
    "throttle_sw_thermal": ("heat (software)", "过热（软件）"),
    "throttle_hw_thermal": ("heat (hardware)", "过热（硬件）"),
    "throttle_power_brake": ("power brake (PSU, rack)", "电源制动（电源、机柜）"),
    "throttle_display": ("display clock", "显示时钟"),
    "throttle_other": ("reason {bit}", "原因 {bit}"),
    "level_fires": ("fires at {value}", "{value} 触发"),
    "level_clears": ("clears below {value}", "低于 {value} 恢复"),
    "level_reserved": ("engine reserves {value}", "引擎预占 {value}"),
    # one engine
    "all_engines": ("all engines", "全部引擎"),
    "replica": ("replica", "副本"),
    "version": ("version", "版本"),
    "reservation": ("reserves VRAM", "显存预占"),
    "up_for": ("up for", "运行时长"),
    "metric_ttft": ("TTFT", "首 token 延迟 TTFT"),
    "metric_itl": ("ITL", "token 间延迟 ITL"),
    "metric_tpot": ("TPOT", "每 token 延迟 TPOT"),
    "metric_e2e": ("E2E", "端到端延迟 E2E"),
    "queue": ("queue", "排队"),
    "peak_waiting": ("peak {n} waiting", "峰值排队 {n}"),
    "kv_cache": ("KV cache", "KV 缓存"),
    "tokens": ("tokens per second", "每秒 token"),
    "generation": ("generation", "生成"),
    "prompt": ("prompt", "输入"),
    "mean_generation": ("mean generation {value}", "平均生成 {value}"),
    "preemptions": ("preemptions", "抢占"),
    "in_window": ("{n} in this time", "本时段 {n} 次"),
    "aborts": ("aborts", "中止请求"),
    "since_start": ("{n} since its start", "自启动以来 {n} 次"),
    "not_measured_by": ("not measured by {engine}", "{engine} 不统计"),
}


def language(chosen: str, locale: str | None) -> str:
    """The language the URL chooses, else the browser's where it is Chinese, else English."""
    if chosen in LANGUAGES:
        return chosen
    return "zh" if (locale or "").lower().startswith("zh") else "en"


def say(lang: str, key: str, **values: object) -> str:
    """A phrase with its values put in. Raises KeyError for a key that does not exist."""
    if str(values.get("n")) == "1" and f"{key}_one" in WORDS:
        key = f"{key}_one"
    phrases = WORDS.get(key) or ABOUT[key]
    return phrases[LANGUAGES[lang]].format(**values)
