from sim.calibrate import calibrate_stack as calibrate_stack
from sim.catalog import catalog_entries as catalog_entries
from sim.catalog import catalog_entry as catalog_entry
from sim.collective import predict_collective as predict_collective
from sim.diagnosis import compare_collective as compare_collective
from sim.diagnosis import explain as explain
from sim.interop import read_log as read_log
from sim.interop import read_training_log as read_training_log
from sim.interop.configs import ImportedScenario as ImportedScenario
from sim.interop.configs import export_megatron as export_megatron
from sim.interop.configs import import_scenario as import_scenario
from sim.ledger import measured_run as measured_run
from sim.ledger import validate as validate
from sim.ledger import validate_micro as validate_micro
from sim.measure.campaign import measure_machine as measure_machine
from sim.results import StepResult as StepResult
from sim.scenario import Scenario as Scenario
from sim.scenario import ScenarioError as ScenarioError
from sim.scenario import json_schema as json_schema
from sim.scenario import load as load
from sim.scenario import loads as loads
from sim.step import simulate as simulate

__version__: str
