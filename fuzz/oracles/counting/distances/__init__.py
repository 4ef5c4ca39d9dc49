"""How far samples are apart: for each system, its own generator and its own formula.

Each module has the name of a value of the contract's `distances`. Its class states the formula, and
the source that it comes from. Invariant: the seed and the periods determine every distance.
"""

from fuzz.oracles.counting.distances.ddtrace import Ddtrace
from fuzz.oracles.counting.distances.dotnet import Dotnet
from fuzz.oracles.counting.distances.dotnet_document import DotnetDocument
from fuzz.oracles.counting.distances.generator import Generator
from fuzz.oracles.counting.distances.geometric import Geometric
from fuzz.oracles.counting.distances.go import Go
from fuzz.oracles.counting.distances.go_1_19 import GoWide
from fuzz.oracles.counting.distances.gperftools import Gperftools
from fuzz.oracles.counting.distances.hotspot import Hotspot
from fuzz.oracles.counting.distances.jemalloc import Jemalloc
from fuzz.oracles.counting.distances.ocaml import Ocaml
from fuzz.oracles.counting.distances.ocaml_5_3 import OcamlDomain
from fuzz.oracles.counting.distances.period import Period
from fuzz.oracles.counting.distances.tcmalloc import Tcmalloc
from fuzz.oracles.counting.distances.v8 import V8
from fuzz.oracles.counting.distances.v8_14_6 import V8Sum

GENERATORS: dict[str, type[Generator]] = {
    "geometric": Geometric,
    "dotnet": Dotnet,
    "dotnet_document": DotnetDocument,
    "jemalloc": Jemalloc,
    "tcmalloc": Tcmalloc,
    "gperftools": Gperftools,
    "hotspot": Hotspot,
    "ocaml": Ocaml,
    "ocaml_5_3": OcamlDomain,
    "ddtrace": Ddtrace,
    "go": Go,
    "go_1_19": GoWide,
    "v8": V8,
    "v8_14_6": V8Sum,
}
"""The generators, by the contract's name."""


def generator_of(distances: str, seed: int) -> Generator:
    """A generator of those distances; of the period itself if they are not drawn."""
    return GENERATORS.get(distances, Period)(seed)
