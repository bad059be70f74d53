"""Train a small convolutional network on scikit-learn's handwritten digits, every layer and gradient by miopyx.

    pip install "miopyx[examples]"
    python examples/train_digits.py [--device host] [--epochs 12] [--seed 0] [--picture digits.png]

Weights, activations and gradients live on the device.  NumPy only draws the first weights, uploads images and labels,
and looks at the probabilities that come back.  Each layer prepares its plans once; a step then only calls them.
"""

import argparse
import time

import matplotlib
import numpy as np
from sklearn.datasets import load_digits

import miopyx as mi

BATCH = 36  # the 360 test images are ten batches
CLASSES = 10


class Parameter:
    """Weights on the device, with their gradient and their velocity."""

    def __init__(self, handle, desc, start):
        values = np.broadcast_to(start, desc.lens).astype(desc.dtype)
        self.desc = desc
        self.value = handle.upload(values)
        self.gradient = handle.upload(np.zeros_like(values))
        self.velocity = handle.upload(np.zeros_like(values))
        self.add = handle.op_tensor(mi.miopenTensorOpAdd, desc, desc, desc)

    def step(self, rate, momentum, decay):
        """One step of gradient descent.  The plan computes C = alpha1 A + alpha2 B + beta C."""
        self.add(self.gradient, self.value, self.velocity, alpha1=1, alpha2=decay, beta=momentum)
        self.add(self.value, self.velocity, self.value, alpha1=1, alpha2=-rate, beta=0)


class Layer:
    """A layer from x to y.  `forward` returns y, `backward` takes dy and returns dx; both are memory of the layer's."""

    def __init__(self, handle, x_desc, y_desc):
        self.handle, self.x_desc, self.y_desc = handle, x_desc, y_desc
        self.y, self.dx = empty(handle, y_desc), empty(handle, x_desc)
        self.parameters = []

    def forward(self, x, training):
        self.x = x
        self.compute(x, self.y)
        return self.y


class Convolution(Layer):
    def __init__(self, handle, x_desc, filters, size, pad, rng, bias=True):
        w_desc = mi.TensorDescriptor(x_desc.dtype, (filters, x_desc.lens[1], size, size))
        conv = mi.ConvolutionDescriptor(pads=(pad, pad))
        super().__init__(handle, x_desc, mi.TensorDescriptor(x_desc.dtype, conv.output_lens(x_desc, w_desc)))
        scale = np.sqrt(2 / (x_desc.lens[1] * size * size))
        self.w = Parameter(handle, w_desc, scale * rng.standard_normal(w_desc.lens))
        self.b = Parameter(handle, mi.TensorDescriptor(x_desc.dtype, (1, filters, 1, 1)), 0) if bias else None
        self.parameters = [self.w, self.b] if bias else [self.w]
        self.compute = handle.convolution_forward(x_desc, w_desc, conv, self.y_desc)
        self.compute_dx = handle.convolution_backward_data(self.y_desc, w_desc, conv, x_desc)
        self.compute_dw = handle.convolution_backward_weights(self.y_desc, x_desc, conv, w_desc)

    def forward(self, x, training):
        self.x = x
        self.compute(x, self.w.value, self.y)
        if self.b:
            mi.miopenConvolutionForwardBias(self.handle, 1, self.b.desc, self.b.value, 0, self.y_desc, self.y)
        return self.y

    def backward(self, dy):
        self.compute_dw(dy, self.x, self.w.gradient)
        if self.b:
            mi.miopenConvolutionBackwardBias(self.handle, 1, self.y_desc, dy, 0, self.b.desc, self.b.gradient)
        self.compute_dx(dy, self.w.value, self.dx)
        return self.dx


class BatchNorm(Layer):
    """Normalises each channel: by the batch's mean and variance in training, by running ones in the test."""

    def __init__(self, handle, x_desc):
        super().__init__(handle, x_desc, x_desc)
        bn_desc, mode = mi.miopenCreateTensorDescriptor(), mi.miopenBNSpatial
        mi.miopenDeriveBNTensorDescriptor(bn_desc, x_desc, mode)
        self.scale, self.bias = Parameter(handle, bn_desc, 1), Parameter(handle, bn_desc, 0)
        self.parameters = [self.scale, self.bias]
        self.running = [handle.upload(np.full(bn_desc.lens, start, bn_desc.dtype)) for start in (0, 1)]
        self.saved = [empty(handle, bn_desc) for _ in range(2)]  # the batch's, for backward
        self.train = handle.batch_norm_training(mode, x_desc, x_desc, bn_desc, running=True, save=True)
        self.infer = handle.batch_norm_inference(mode, x_desc, x_desc, bn_desc)
        self.compute_dx = handle.batch_norm_backward(mode, x_desc, x_desc, x_desc, bn_desc, saved=True)

    def forward(self, x, training):
        self.x = x
        if training:
            self.train(x, self.y, self.scale.value, self.bias.value, *self.running, *self.saved, exp_avg_factor=0.1)
        else:
            self.infer(x, self.y, self.scale.value, self.bias.value, *self.running)
        return self.y

    def backward(self, dy):
        self.compute_dx(self.x, dy, self.dx, self.scale.value, self.scale.gradient, self.bias.gradient, *self.saved)
        return self.dx


class ReLU(Layer):
    def __init__(self, handle, x_desc):
        super().__init__(handle, x_desc, x_desc)
        relu = mi.miopenCreateActivationDescriptor()
        mi.miopenSetActivationDescriptor(relu, mi.miopenActivationRELU, 0, 0, 0)
        self.compute = handle.activation_forward(relu, x_desc, x_desc)
        self.compute_dx = handle.activation_backward(relu, x_desc, x_desc, x_desc, x_desc)

    def backward(self, dy):
        self.compute_dx(self.y, dy, self.x, self.dx)
        return self.dx


class MaxPool(Layer):
    """The largest of each 2 x 2 square; the workspace remembers which one it was."""

    def __init__(self, handle, x_desc):
        pool = mi.miopenCreatePoolingDescriptor()
        mi.miopenSet2dPoolingDescriptor(pool, mi.miopenPoolingMax, 2, 2, 0, 0, 2, 2)
        lens = mi.miopenGetPoolingForwardOutputDim(pool, x_desc)
        super().__init__(handle, x_desc, mi.TensorDescriptor(x_desc.dtype, lens))
        size = mi.miopenPoolingGetWorkSpaceSizeV2(pool, self.y_desc)
        self.workspace = handle.upload(np.zeros(size, np.uint8))
        self.compute = handle.pooling_forward(pool, x_desc, self.y_desc, do_backward=True)
        self.compute_dx = handle.pooling_backward(pool, self.y_desc, self.y_desc, x_desc, x_desc)

    def forward(self, x, training):
        self.compute(x, self.y, self.workspace)
        return self.y

    def backward(self, dy):
        self.compute_dx(dy, self.dx, self.workspace)
        return self.dx


class LogSoftmax(Layer):
    def __init__(self, handle, x_desc):
        super().__init__(handle, x_desc, x_desc)
        log = {"algorithm": mi.MIOPEN_SOFTMAX_LOG, "mode": mi.MIOPEN_SOFTMAX_MODE_CHANNEL}
        self.compute = handle.softmax_forward(x_desc, x_desc, **log)
        self.compute_dx = handle.softmax_backward(x_desc, x_desc, x_desc, **log)

    def backward(self, dy):
        self.compute_dx(self.y, dy, self.dx)
        return self.dx


class Network:
    """Two convolutions and a third one, as large as its input, that tells the classes apart."""

    def __init__(self, handle, rng, dtype="float32"):
        self.handle, self.dtype, self.layers = handle, dtype, []
        self.desc = mi.TensorDescriptor(dtype, (BATCH, 1, 8, 8))
        self.add(Convolution, 16, 3, 1, rng, bias=False)  # batch normalisation would take a bias away again
        self.add(BatchNorm)
        self.add(ReLU)
        self.add(MaxPool)
        self.add(Convolution, 32, 3, 1, rng)
        self.add(ReLU)
        self.add(Convolution, CLASSES, 4, 0, rng)
        self.add(LogSoftmax)
        self.parameters = [parameter for layer in self.layers for parameter in layer.parameters]

    def add(self, kind, *args, **kwargs):
        self.layers.append(kind(self.handle, self.layers[-1].y_desc if self.layers else self.desc, *args, **kwargs))

    def forward(self, images, training):
        """Return the logarithms of the probabilities of BATCH images."""
        x = self.handle.upload(images.astype(self.dtype))
        for layer in self.layers:
            x = layer.forward(x, training)
        return self.handle.download(x, np.empty((BATCH, CLASSES), self.dtype))

    def backward(self, labels):
        """Put the gradients of the cross entropy, -mean(log p[label]), into the parameters."""
        dy = self.handle.upload(np.eye(CLASSES, dtype=self.dtype)[labels] / -BATCH)
        for layer in reversed(self.layers):
            dy = layer.backward(dy)

    def predict(self, images):
        return np.concatenate([self.forward(images[i:i + BATCH], training=False).argmax(1)
                               for i in range(0, len(images), BATCH)])


def empty(handle, desc):
    return handle.upload(np.empty(desc.lens, desc.dtype))


def load():
    """Return (images, labels) of the training and of the test; the split is always the same."""
    digits = load_digits()
    order = np.random.default_rng(2026).permutation(len(digits.target))
    images, labels = (digits.images[order, None] / 16).astype(np.float32), digits.target[order]
    return (images[360:], labels[360:]), (images[:360], labels[:360])


def train(network, images, labels, test, rng, epochs, rate=0.05, momentum=0.9, decay=1e-4):
    """Return the loss of every step and the test accuracy after every epoch."""
    losses, accuracies = [], []
    for epoch in range(1, epochs + 1):
        began = time.perf_counter()
        order = rng.permutation(len(labels))
        for start in range(0, len(labels) - BATCH + 1, BATCH):
            chosen = order[start:start + BATCH]
            log_p = network.forward(images[chosen], training=True)
            losses.append(-log_p[np.arange(BATCH), labels[chosen]].mean())
            network.backward(labels[chosen])
            for parameter in network.parameters:
                # A rate that falls along half a cosine ends in calm water.
                parameter.step(rate * 0.5 * (1 + np.cos(np.pi * (epoch - 1) / epochs)), momentum, decay)
        accuracies.append((network.predict(test[0]) == test[1]).mean())
        steps = len(labels) // BATCH
        print(f"epoch {epoch:2} of {epochs}   loss {np.mean(losses[-steps:]):.4f}   "
              f"test accuracy {accuracies[-1]:7.2%}   {time.perf_counter() - began:.2f} s", flush=True)
    return losses, accuracies


def draw(path, losses, accuracies, images, labels, predictions, device):
    """Save the loss curve and some test digits with predictions, all mistakes first."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.05, 1))
    figure.suptitle(f"scikit-learn's digits, trained by miopyx on {device}")
    loss = left.subplots()
    epochs = np.arange(1, len(losses) + 1) * len(accuracies) / len(losses)
    loss.semilogy(epochs, losses, color="0.75", linewidth=0.8, label="one step")
    window = min(20, len(losses))
    loss.semilogy(epochs[window - 1:], np.convolve(losses, np.ones(window) / window, "valid"), color="C0",
                  label=f"mean of {window} steps")
    loss.set(xlabel="epoch", ylabel="cross entropy (nats)", xlim=(0, len(accuracies)), title="training loss")
    loss.legend()
    loss.grid(alpha=0.3)
    shown = np.argsort(predictions == labels, kind="stable")[:24]
    for axes, i in zip(right.subplots(4, 6).flat, shown, strict=True):
        wrong = predictions[i] != labels[i]
        axes.imshow(images[i, 0], cmap="gray_r")
        axes.set_title(f"{predictions[i]}" + (f" (is {labels[i]})" if wrong else ""), fontsize=9, pad=3,
                       color="tab:red" if wrong else "black")
        axes.set_axis_off()
    right.suptitle(f"test digits and predictions: {(predictions == labels).mean():.1%} right, "
                   f"{(predictions != labels).sum()} of {len(labels)} wrong", fontsize="large")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", help="a name as `miopyx doctor` prints it; default: the best that works")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0, help="of the first weights and the order of the images")
    parser.add_argument("--picture", default="digits.png", help="file for the loss curve and some test digits")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.seed)
    (images, labels), test = load()
    with mi.Handle(options.device) as handle:
        network = Network(handle, rng)
        losses, accuracies = train(network, images, labels, test, rng, options.epochs)
        predictions = network.predict(test[0])
        draw(options.picture, losses, accuracies, *test, predictions, handle.device.name)
    accuracy = (predictions == test[1]).mean()
    print(f"test accuracy {accuracy:.2%}, picture in {options.picture}")
    return accuracy


if __name__ == "__main__":
    main()
