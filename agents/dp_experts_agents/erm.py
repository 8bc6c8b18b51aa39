"""Private empirical risk minimisation over a finite class: an estimator, not a learner.

**Proof note.** Mechanism (of "Private ERM and private online learning", S0): draw h with probability proportional to
exp(-(epsilon n / 2) * err_S(h)), err_S the mean loss over the sample, n the *declared* least sample size. Sensitivity:
adding or removing one example moves each mean loss by at most 1/(m + 1) <= 1/n where m >= n is the smaller sample's
size, so the log-weights move within an interval of length at most epsilon: epsilon-DP under add/remove. The code never
uses the actual size in place of n, and a sample below the declared size is refused, since the claim is about samples of
at least that size. Status: [TEXT].

Excess risk, M the size of the class: with probability at least 1 - beta,
err_S(h) <= min err_S + 2 (ln M + ln(1/beta))/(epsilon n).
With independent examples a uniform deviation of sqrt((ln(2 M) + ln(1/beta))/(2 m)) holds with probability 1 - beta.
Splitting beta in two, n >= 24 (ln M + ln(1/beta)) max(1/alpha^2, 1/(epsilon alpha)) makes the excess risk at most
alpha for M >= 2: with L = ln M + ln(1/beta) >= ln 2 the mechanism costs at most alpha (L + ln 2)/(12 L) <= alpha/6
and the two deviations 2 alpha sqrt((L + ln 4)/(48 L)) <= alpha/2. [DERIVED]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from dp_experts_env.privacy.mechanisms import (
    exponential_log_probabilities,
    exponential_probabilities,
    sample_inverse_cdf,
)
from dp_experts_env.spec import (
    ArgumentError,
    FloatArray,
    Parameters,
    ProtocolError,
    check_count,
    check_epsilon,
    check_number,
)


class PrivateERM(Parameters):
    """Draws a hypothesis of small mean loss by the exponential mechanism, in scikit-learn's ``fit``/``predict`` style.

    Every call of :meth:`fit` spends epsilon anew; predictions from the drawn hypothesis spend nothing.

    Args:
        least_size: declared least number n of examples, an integer >= 1; public.
        hypotheses: the class: a sequence of callables, each mapping ``X`` to m predictions, that of an example from
            this example alone (else the sensitivity is not 1/n); or ``None`` when ``X`` itself is a prediction matrix
            ``(m, |C|)`` with one column a hypothesis.
        epsilon: privacy budget, a number > 0.
        loss: callable ``(predictions, targets) -> losses`` elementwise in [0, 1]; ``None`` for the zero-one loss.
        rng: the ``numpy.random.Generator`` that every draw comes from.

    Raises:
        ArgumentError: if an argument lies outside its range.
    """

    def __init__(
        self,
        least_size: int,
        hypotheses: Sequence[Callable[[Any], Any]] | None = None,
        epsilon: float = 1.0,
        loss: Callable[[Any, Any], Any] | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        self.least_size = check_count("least_size", least_size)
        if hypotheses is not None:
            given, hypotheses = hypotheses, tuple(hypotheses) if isinstance(hypotheses, Iterable) else ()
            if not hypotheses or not all(callable(hypothesis) for hypothesis in hypotheses):
                raise ArgumentError(f"hypotheses: expected one or more callables, nothing else, but found {given!r}")
        self.hypotheses = hypotheses
        self.epsilon = check_epsilon(epsilon)
        self.loss = loss
        if not isinstance(rng, np.random.Generator):
            raise ArgumentError(f"rng: expected a numpy.random.Generator but found {rng!r}")
        self.rng = rng

    def fit(self, X: Any, y: Any) -> PrivateERM:
        """Draw a hypothesis from the sample and keep its index in ``selected_``.

        Args:
            X: what the hypotheses take, m >= ``least_size`` examples; or the prediction matrix ``(m, |C|)``.
            y: targets, shape ``(m,)``.

        Raises:
            ArgumentError: shapes that do not fit, fewer examples than declared, or a loss outside [0, 1].
        """
        law = exponential_probabilities(self.mean_losses(X, y), self.coefficient)
        self.selected_ = int(sample_inverse_cdf(law, self.rng.random()))
        return self

    def predict(self, X: Any) -> Any:
        """Return the drawn hypothesis's predictions, shape ``(m,)``.

        Raises:
            ArgumentError: a prediction matrix without the drawn hypothesis's column.
            ProtocolError: before :meth:`fit`.
        """
        if not hasattr(self, "selected_"):
            raise ProtocolError("PrivateERM.predict: expected fit() first")
        if self.hypotheses is None:
            predictions = np.asarray(X)
            if predictions.ndim != 2 or predictions.shape[1] <= self.selected_:
                raise ArgumentError(
                    f"X: expected a prediction matrix (m, |C|), |C| > {self.selected_}, but found {predictions.shape}"
                )
            return predictions[:, self.selected_]
        return np.asarray(self.hypotheses[self.selected_](X))

    @property
    def coefficient(self) -> float:
        """What multiplies the mean losses in the exponent: epsilon n / 2, n the declared size."""
        return 0.5 * self.epsilon * self.least_size

    def log_law(self, X: Any, y: Any) -> FloatArray:
        """Return the log-probabilities with which :meth:`fit` draws each hypothesis, shape ``(|C|,)``. Not private."""
        return exponential_log_probabilities(self.mean_losses(X, y), self.coefficient)

    def mean_losses(self, X: Any, y: Any) -> FloatArray:
        """Return each hypothesis's mean loss on the sample, shape ``(|C|,)``. Not private.

        Raises:
            ArgumentError: see :meth:`fit`.
        """
        targets = np.asarray(y)
        if targets.ndim != 1 or len(targets) < self.least_size:
            raise ArgumentError(
                f"y: expected shape (m,) with m >= the declared least_size {self.least_size} but found {targets.shape}"
            )
        if self.hypotheses is None:
            predictions = np.asarray(X)
            if predictions.ndim != 2 or len(predictions) != len(targets) or not predictions.shape[1]:
                raise ArgumentError(
                    f"X: expected a prediction matrix ({len(targets)}, |C|) but found shape {predictions.shape}"
                )
            columns = list(predictions.T)
        else:
            columns = [np.asarray(hypothesis(X)) for hypothesis in self.hypotheses]
        return np.array([self._mean_loss(column, targets, index) for index, column in enumerate(columns)])

    def empirical_bound(self, beta: float, num_hypotheses: int | None = None) -> float:
        """Return 2 (ln M + ln(1/beta))/(epsilon n): the excess mean loss, with probability at least 1 - beta.

        Args:
            beta: in (0, 1).
            num_hypotheses: M, the size of the class; needed if the class is a prediction matrix.
        """
        return 2.0 * self._log_size(beta, num_hypotheses) / (self.epsilon * self.least_size)

    def excess_risk_bound(self, beta: float, num_hypotheses: int | None = None) -> float:
        """Return a bound on the excess risk over independent examples, with probability at least 1 - beta.

        Half of beta pays for the draw, half for the uniform deviation of the mean losses.
        """
        deviation = math.sqrt((self._log_size(beta / 2.0, num_hypotheses) + math.log(2.0)) / (2.0 * self.least_size))
        return self.empirical_bound(beta / 2.0, num_hypotheses) + 2.0 * deviation

    @staticmethod
    def sample_size(alpha: float, beta: float, epsilon: float, num_hypotheses: int) -> int:
        """Return S0's sample size 24 (ln M + ln(1/beta)) max(1/alpha^2, 1/(epsilon alpha)), rounded up.

        Args:
            alpha: excess risk asked, in (0, 1].
            beta: failure probability in (0, 1).
            epsilon: privacy budget, > 0.
            num_hypotheses: M >= 1.

        Raises:
            ArgumentError: if an argument lies outside its range.
        """
        alpha = check_number("alpha", alpha, 0.0, 1.0, low_open=True)
        beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        size = math.log(check_count("num_hypotheses", num_hypotheses)) + math.log(1.0 / beta)
        return math.ceil(24.0 * size * max(1.0 / alpha**2, 1.0 / (check_epsilon(epsilon) * alpha)))

    def _log_size(self, beta: float, num_hypotheses: int | None) -> float:
        beta = check_number("beta", beta, 0.0, 1.0, low_open=True, high_open=True)
        if num_hypotheses is None:
            if self.hypotheses is None:
                raise ArgumentError("num_hypotheses: expected the number of columns of the prediction matrix")
            num_hypotheses = len(self.hypotheses)
        return math.log(check_count("num_hypotheses", num_hypotheses)) + math.log(1.0 / beta)

    def _mean_loss(self, predictions: Any, targets: Any, index: int) -> float:
        if predictions.shape != targets.shape:
            raise ArgumentError(
                f"hypotheses: number {index} returned shape {predictions.shape} where {targets.shape} was expected"
            )
        if self.loss is None:
            return float((predictions != targets).mean())
        losses = np.asarray(self.loss(predictions, targets), dtype=np.float64)
        if losses.shape != targets.shape or not (losses.min() >= 0.0 and losses.max() <= 1.0):
            raise ArgumentError(f"loss: expected {targets.shape} numbers in [0, 1] for hypothesis {index}")
        return float(losses.mean())
