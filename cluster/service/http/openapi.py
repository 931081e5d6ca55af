"""The document of the API (OpenAPI 3.1), made from the table of routes and the types in it."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

from cluster.service.http.calls import Problem
from cluster.service.http.routes import JSON, Query, Route, Table
from cluster.service.views import ID_FORM
from distprove.formats.plain_data import schema

_EVERYWHERE = {
    400: "Not a request of HTTP.",
    408: "The request came too slowly.",
    421: "The host is not this service.",
    429: "Too many requests.",
    500: "A fault of the service.",
}
_WITH_TOKEN = {401: "No token that is known.", 503: "Full, or ending."}
_ERRORS = {
    404: "No such job, or nothing there yet.",
    409: "Another job has this id.",
    413: "The body is too large.",
    415: "The body is not plain JSON.",
    422: "What is asked for is not usable as given.",
    503: "Full, or ending.",
}


def document(table: Table) -> dict[str, Any]:
    """The OpenAPI document of the routes."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for route in table.routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "distprove",
            "version": metadata.version("distprove"),
            "description": "A standing service that proves jobs. Paths in jobs are those of the service's machine.",
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    summary, _, rest = " ".join(route.about.split()).partition(". ")
    errors = {**_EVERYWHERE, **({} if route.open else _WITH_TOKEN), **{code: _ERRORS[code] for code in route.errors}}
    failed = {"application/json": {"schema": schema(Problem, schemas)}}
    content = {route.media: {} if route.answer is None else {"schema": schema(route.answer, schemas)}}
    made: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary.rstrip("."),
        "parameters": [*map(_in_path, re.findall(r"{(\w+)}", route.path)), *map(_in_query, route.query)],
        "responses": {
            **{str(code): {"description": about, "content": content} for code, about in route.codes.items()},
            **{str(code): {"description": about, "content": failed} for code, about in sorted(errors.items())},
        },
    }
    if rest:
        made["description"] = rest
    if route.body is not None:
        body = schema(route.body, schemas, complete=False)
        made["requestBody"] = {"required": True, "content": {JSON: {"schema": body}}}
    if route.open:
        made["security"] = []
    return made


def _in_path(name: str) -> dict[str, Any]:
    form = {"type": "string", "pattern": f"^{ID_FORM}$"}
    return {"name": name, "in": "path", "required": True, "schema": form}


def _in_query(query: Query) -> dict[str, Any]:
    named: dict[str, Any] = {}
    told = schema(query.kind, named)
    told = next(iter(named.values()), told)  # few enough to stand here
    if query.bounds:
        told = {**told, "minimum": query.bounds[0], "maximum": query.bounds[1]}
    if query.default is not None:
        told = {**told, "default": query.default}
    return {"name": query.name, "in": "query", "description": query.about, "schema": told}
