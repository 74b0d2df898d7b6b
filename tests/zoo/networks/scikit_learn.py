"""Classic estimators through skl2onnx, fitted on seeded data: what the operators of ai.onnx.ml come from. Random forests and linear models are the ones that people export."""

import numpy as np
import sklearn.cluster
import sklearn.compose
import sklearn.datasets
import sklearn.decomposition
import sklearn.ensemble
import sklearn.gaussian_process
import sklearn.linear_model
import sklearn.neighbors
import sklearn.neural_network
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
from skl2onnx import to_onnx

from networks import network


def fitted(path, model, classes=4, features=20, continuous=False, rows=64, opset=17):
    make = sklearn.datasets.make_regression if continuous else sklearn.datasets.make_classification
    extra = {} if continuous else {"n_classes": classes, "n_informative": 8}
    x, y = make(n_samples=400, n_features=features, random_state=3, **extra)
    x = x.astype(np.float32)
    y = y / np.abs(y).max() if continuous else y
    model.fit(x, y)
    options = {id(model): {"zipmap": False}} if hasattr(model, "predict_proba") else None
    converted = to_onnx(model, x[:1], options=options, target_opset={"": opset, "ai.onnx.ml": 3})
    path.write_bytes(converted.SerializeToString())
    name = converted.graph.input[0].name
    if hasattr(model, "predict_proba"):
        found = [np.asarray(model.predict(x[:rows])), model.predict_proba(x[:rows])]
    elif hasattr(model, "predict"):
        found = [np.asarray(model.predict(x[:rows])).reshape(-1, 1)]
    else:
        found = [model.transform(x[:rows])]
    return [{name: x[:rows]}, {name: x[rows:rows + 7]}], found


def estimator(name, **arguments):
    """Registers `make()`, which gives the estimator."""
    def register(make):
        @network(name, "skl2onnx", arguments.get("opset", 17))
        def _(path):
            return fitted(path, make(), **arguments)
        return make
    return register


@estimator("sk_mlp")
def mlp():
    scale = sklearn.preprocessing.StandardScaler()
    return sklearn.pipeline.make_pipeline(scale, sklearn.neural_network.MLPClassifier((128, 64), max_iter=60, random_state=1))


@estimator("sk_logistic")
def logistic():
    return sklearn.pipeline.make_pipeline(sklearn.preprocessing.StandardScaler(), sklearn.linear_model.LogisticRegression(max_iter=300))


@estimator("sk_forest")
def forest():
    return sklearn.ensemble.RandomForestClassifier(50, max_depth=8, random_state=1)


@estimator("sk_boosting", continuous=True)
def boosting():
    return sklearn.ensemble.GradientBoostingRegressor(n_estimators=60, max_depth=4, random_state=1)


@estimator("sk_svc")
def svc():
    return sklearn.svm.SVC(probability=True, random_state=1)


@estimator("sk_pca_ridge", continuous=True, opset=18)
def ridge():
    return sklearn.pipeline.make_pipeline(sklearn.decomposition.PCA(8, random_state=1), sklearn.linear_model.Ridge())


@estimator("sk_gaussian_process", continuous=True, opset=18)
def gaussian_process():
    return sklearn.gaussian_process.GaussianProcessRegressor(sklearn.gaussian_process.kernels.RBF(3.0), alpha=0.1, random_state=1)


@estimator("sk_neighbours", continuous=True)
def neighbours():
    return sklearn.neighbors.KNeighborsRegressor(5)


@estimator("sk_kmeans")
def kmeans():
    return sklearn.pipeline.make_pipeline(sklearn.preprocessing.MinMaxScaler(), sklearn.cluster.KMeans(8, random_state=1, n_init=2))
