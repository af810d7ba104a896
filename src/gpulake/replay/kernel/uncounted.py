"""The state without reference counts: counting them at each call took a third of the time of a simulation."""

from __future__ import annotations

from typing import Any

from gpulake.replay.kernel.arrays import HAS_COMPILER, State


def uncounted(state: State) -> State:
    """The same arrays; the caller keeps them alive."""
    return state


if HAS_COMPILER:
    from numba.core import cgutils
    from numba.extending import intrinsic, overload
    from numba.np.arrayobj import make_array

    def _viewed(_typing: Any, array: Any) -> Any:
        """An array that no one owns, on the same memory."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            view = make_array(signature.return_type)(context, builder, args[0])  # type: ignore[no-untyped-call]
            view.meminfo = cgutils.get_null_value(view.meminfo.type)  # type: ignore[no-untyped-call]
            return view._getvalue()

        return array(array), generate

    _view: Any = intrinsic(_viewed)

    @overload(uncounted)
    def _uncounted(state: Any) -> Any:  # noqa: ARG001 (its type is what counts)
        def views(state: Any) -> Any:
            return State(
                _view(state.jobs),
                _view(state.mach),
                _view(state.slot),
                _view(state.inst),
                _view(state.heap),
                _view(state.numbers),
                _view(state.allow),
                _view(state.events),
                _view(state.log),
                _view(state.none),
                _view(state.later_mach),
                _view(state.later_slot),
            )

        return views
