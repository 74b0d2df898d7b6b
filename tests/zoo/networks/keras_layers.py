"""Keras through tf2onnx: channel last pictures between Transposes, recurrences and attention in its spelling."""

import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy as np
import tensorflow as tf
import tf2onnx
from keras import layers

from networks import network


def converted(path, model, inputs, opset=17):
    """`inputs`: arrays; the batch is dynamic."""
    random = np.random.default_rng(5)
    for layer in model.weights:
        value = layer.numpy()
        if value.ndim == 1 and value.dtype == np.float32:
            shift = 0.3 * np.abs(random.standard_normal(value.shape)) if "variance" in layer.path else 0.1 * random.standard_normal(value.shape)
            layer.assign(value + shift.astype(np.float32))
    signature = [tf.TensorSpec((None, *array.shape[1:]), array.dtype, name=f"input{index}") for index, array in enumerate(inputs)]
    function = tf.function(lambda *values: model(list(values) if len(values) > 1 else values[0], training=False), input_signature=signature)
    onnx_model, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=opset)
    path.write_bytes(onnx_model.SerializeToString())
    names = [value.name for value in onnx_model.graph.input]
    found = function(*inputs)
    sets = [dict(zip(names, inputs)), dict(zip(names, [array[:1] for array in inputs]))]
    return sets, [value.numpy() for value in ((found,) if tf.is_tensor(found) else found)]


def pictures(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


@network("keras_xception", "tf2onnx", 17)
def xception(path):
    """Separable convolutions, "same" pads that are not symmetric, strided pools."""
    keras.utils.set_random_seed(1)
    x = start = keras.Input((128, 128, 3))
    for width in (32, 64):
        x = layers.Activation("relu")(layers.BatchNormalization()(layers.Conv2D(width, 3, 2 if width == 32 else 1, use_bias=False, padding="same")(x)))
    for width in (128, 256):
        skip = layers.BatchNormalization()(layers.Conv2D(width, 1, 2, padding="same", use_bias=False)(x))
        for _ in range(2):
            x = layers.BatchNormalization()(layers.SeparableConv2D(width, 3, padding="same", use_bias=False, depthwise_initializer="he_normal", pointwise_initializer="he_normal")(layers.Activation("relu")(x)))
        x = layers.Add()([layers.MaxPooling2D(3, 2, padding="same")(x), skip])
    x = layers.Dense(100, activation="softmax")(layers.GlobalAveragePooling2D()(x))
    return converted(path, keras.Model(start, x), [pictures(2, 128, 128, 3)])


@network("keras_mobilenet_hswish", "tf2onnx", 18)
def mobile(path):
    keras.utils.set_random_seed(2)
    x = start = keras.Input((96, 96, 3))
    x = layers.Conv2D(16, 3, 2, padding="same")(x)
    for width, kernel, stride in ((24, 3, 2), (40, 5, 2), (40, 5, 1), (96, 5, 2)):
        y = layers.Activation("hard_silu")(layers.BatchNormalization()(layers.Conv2D(4 * x.shape[-1], 1, use_bias=False)(x)))
        y = layers.Activation("hard_silu")(layers.BatchNormalization()(layers.DepthwiseConv2D(kernel, stride, padding="same", use_bias=False)(y)))
        gate = layers.Reshape((1, 1, -1))(layers.GlobalAveragePooling2D()(y))
        gate = layers.Conv2D(y.shape[-1], 1, activation="hard_sigmoid")(layers.Conv2D(16, 1, activation="relu")(gate))
        y = layers.BatchNormalization()(layers.Conv2D(width, 1, use_bias=False)(layers.Multiply()([y, gate])))
        x = layers.Add()([x, y]) if stride == 1 and x.shape[-1] == width else y
    return converted(path, keras.Model(start, layers.Dense(50)(layers.GlobalAveragePooling2D()(x))), [pictures(2, 96, 96, 3)], 18)


@network("keras_unet", "tf2onnx", 17)
def unet(path):
    keras.utils.set_random_seed(3)
    start = keras.Input((96, 96, 3))
    a = layers.Conv2D(32, 3, activation="relu", padding="same")(start)
    b = layers.Conv2D(64, 3, activation="relu", padding="same")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(128, 3, activation="relu", padding="same", dilation_rate=2)(layers.MaxPooling2D()(b))
    b = layers.Conv2D(64, 3, activation="elu", padding="same")(layers.Concatenate()([layers.Conv2DTranspose(64, 3, 2, padding="same")(c), b]))
    a = layers.Conv2D(32, 3, activation="swish", padding="same")(layers.Concatenate()([layers.UpSampling2D(2, interpolation="bilinear")(b), a]))
    return converted(path, keras.Model(start, layers.Conv2D(2, 1, activation="sigmoid")(a)), [pictures(2, 96, 96, 3)])


@network("keras_lstm_gru", "tf2onnx", 17)
def recurrent(path):
    keras.utils.set_random_seed(4)
    start = keras.Input((30, 40))
    x = layers.Bidirectional(layers.LSTM(128, return_sequences=True))(start)
    x = layers.GRU(96, return_sequences=True, reset_after=True)(x)
    x = layers.LayerNormalization()(layers.Conv1D(64, 5, padding="causal", activation="tanh")(x))
    return converted(path, keras.Model(start, layers.Dense(12, activation="softmax")(x)), [pictures(2, 30, 40)])


@network("keras_transformer", "tf2onnx", 18)
def transformer(path):
    keras.utils.set_random_seed(5)
    start = keras.Input((48,), dtype="int32")
    x = layers.Embedding(1000, 256)(start)
    for _ in range(2):
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.MultiHeadAttention(8, 32)(x, x, use_causal_mask=True))
        x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dense(256)(layers.Dense(1024, activation=lambda y: keras.activations.gelu(y, approximate=True))(x)))
    return converted(path, keras.Model(start, layers.Dense(1000)(x)), [np.random.default_rng(2).integers(0, 1000, (2, 48)).astype(np.int32)], 18)
