"""Recommenders over a graph store and embedding tables: batches, losses, models, retrieval, metrics."""

from models.batch import Batch
from models.bpr import MatrixFactorization
from models.exchange import Exchange, FetchPlan, LocalExchange
from models.lightgcn import LightGCN
from models.loader import EdgeLoader
from models.metrics import RankingSums, ranking_sums
from models.model import Model
from models.options import ModelOptions
from models.ranking import evaluate, recommend
from models.retrieval import Top, top_k
from models.trace import Trace

MODELS: dict[str, type[Model]] = {"bpr": MatrixFactorization, "lightgcn": LightGCN}

__all__ = [
    "MODELS",
    "Batch",
    "EdgeLoader",
    "Exchange",
    "FetchPlan",
    "LightGCN",
    "LocalExchange",
    "MatrixFactorization",
    "Model",
    "ModelOptions",
    "RankingSums",
    "Top",
    "Trace",
    "evaluate",
    "ranking_sums",
    "recommend",
    "top_k",
]
