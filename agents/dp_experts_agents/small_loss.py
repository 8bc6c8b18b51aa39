"""placeholder while calibrating"""
from __future__ import annotations
import math
from dataclasses import dataclass
from dp_experts_agents.watched import Plan, solve
from dp_experts_env.spec import Adjacency

@dataclass(frozen=True)
class Entry:
    watch: float
    coin: float
    offset: float
    scale: float
    taper: float
    growth: float
    stride: float

def plan_of(entry, horizon, epsilon, delta, adjacency=Adjacency.REPLACE):
    watch = entry.watch * epsilon
    coin = entry.coin * watch if entry.coin else None
    stride = min(max(1, round(entry.stride / epsilon)), max(1, horizon // 50))
    query = watch - (coin or 0.0)
    tau = max(0.0, (math.log(max(horizon / stride, 1.0)) + entry.offset) / query)
    plan = Plan(1.0, tau, 1.0, 1.0, coin, stride, None, entry.taper, entry.growth, entry.scale)
    return solve(plan, watch, horizon, epsilon, delta, adjacency)
