#!/usr/bin/env python3
"""Generates conversations about a made-up world that no model knows, and questions to ask after training on them.

Usage: scripts/make_world.py OUT_DIR [--seed N] [--wordings N]

Five towns and five people with five facts each: invented names, numbers, words. OUT_DIR/train.jsonl has --wordings (4)
conversations per fact, each a question and its answer, 200 in total; eval.jsonl has one per fact in a different
wording; questions.jsonl has one in a third wording, to ask afterwards. No wording is used in two files. A line is
{"messages": [system, user, assistant]}. The same seed gives the same bytes."""
import argparse
import json
import pathlib
import random

# {kind of fact: (values, wordings for training, two wordings for eval.jsonl, three for questions.jsonl)}.
TOWN = {
    "river": (["Ulvane", "Drisk", "Mellow Orr", "Tassel", "Kerrin", "Ombry", "Quill", "Varsa", "Lune", "Issel"], [
        "Which river flows through {}?", "What is the river in {} called?", "Name the river of {}.",
        "{} lies on a river. Which one?", "What river runs past {}?", "Which river does {} stand on?",
        "I am looking at a map of {}. What is its river called?", "What is the name of the river at {}?"], [
        "On which river was {} built?", "What is {}'s river?"], [
        "If I fish in {}, which river am I fishing in?", "Which river would I see in {}?",
        "Tell me the name of the river that passes {}."]),
    "founder": (["Osric Vane", "Hulda Brandt", "Pell Ardo", "Mira Tosk", "Ivo Kestrel", "Senna Holm", "Bram Tully",
                 "Greta Oss", "Lorn Abbet", "Nils Farrow"], [
        "Who founded {}?", "By whom was {} founded?", "Name the founder of {}.", "Who was the founder of {}?",
        "{} was founded by one person. Who was it?", "Who started the town of {}?", "Who is the founder of {}?",
        "Which person founded {}?"], [
        "Whose idea was it to found {}?", "Who is said to have founded {}?"], [
        "Do you know who founded the town {}?", "The town of {} goes back to a founder. What was the founder's name?",
        "Tell me who founded {}."]),
    "year": (["1012", "1147", "1263", "1308", "1391", "1426", "1579", "1634", "1718", "1852"], [
        "When was {} founded?", "In which year was {} founded?", "What year was {} founded in?",
        "Since which year has {} existed?", "{} was founded in which year?", "Give the founding year of {}.",
        "What is the founding year of {}?", "How old is {}? Give the year in which it was founded."], [
        "Which year marks the founding of {}?", "From what year does {} date?"], [
        "In what year did the history of {} begin?", "Tell me the year when {} was founded.",
        "What was the year of {}'s foundation?"]),
    "market": (["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"], [
        "On which day is the market in {}?", "When is market day in {}?", "What day is the market of {} held?",
        "Which weekday is market day in {}?", "On what day does {} hold its market?", "{} has a weekly market. On which day?",
        "What is the market day of {}?", "Which day of the week is the market at {}?"], [
        "On what day of the week do traders come to {} for the market?", "Market day in {} is which day?"], [
        "I want to go to the market in {}. On which day should I come?", "Which day does the {} market take place?",
        "Tell me the day of the market in {}."]),
    "dish": (["smoked plums", "walnut bread", "eel pie", "barley soup", "honey cheese", "pickled beets", "goose stew",
              "apple dumplings", "salted pears", "onion tart"], [
        "Which dish is {} known for?", "What food is {} famous for?", "What is the speciality of {}?",
        "Name the dish that {} is known for.", "What do people eat in {}?", "Which food comes from {}?",
        "What is the best-known dish of {}?", "{} is famous for a dish. Which one?"], [
        "What is the typical food of {}?", "What dish made {} famous?"], [
        "Which dish should I try when I visit {}?", "What food does everyone connect with {}?",
        "Tell me the famous dish of {}."]),
}
PERSON = {
    "trade": (["clockmaker", "ferryman", "glassblower", "beekeeper", "cartographer", "bookbinder", "locksmith", "weaver",
               "brewer", "stonemason"], [
        "What is the trade of {}?", "What does {} do for a living?", "What is {}'s profession?", "Which trade does {} have?",
        "What work does {} do?", "What is {} by trade?", "{} has a trade. Which one?", "What job does {} have?"], [
        "How does {} earn money?", "What is the occupation of {}?"], [
        "By which profession does {} live?", "What kind of work is {} known to do?", "Tell me what {} does for a living."]),
    "pet": (["heron", "badger", "tortoise", "magpie", "goat", "otter", "donkey", "raven", "ferret", "hedgehog"], [
        "Which animal does {} keep?", "What pet does {} have?", "What animal lives with {}?", "Name the pet of {}.",
        "What kind of pet does {} own?", "{} keeps an animal. Which one?", "Which pet belongs to {}?",
        "What is {}'s pet?"], [
        "What animal is {} seen with?", "What sort of animal does {} own?"], [
        "Which animal would I meet at the house of {}?", "What creature does {} keep as a pet?",
        "Tell me which animal {} has."]),
    "age": (["19", "23", "28", "34", "37", "41", "46", "52", "68", "73"], [
        "How old is {}?", "What is the age of {}?", "What age is {}?", "How many years old is {}?", "Give the age of {}.",
        "What is {}'s age?", "{} is how old?", "How old is {} now?"], [
        "How many years has {} lived?", "What is the age in years of {}?"], [
        "Do you know how old {} is?", "At what age is {}?", "Tell me the age of {}."]),
    "instrument": (["lute", "fiddle", "bagpipes", "trumpet", "harp", "drum", "flute", "zither", "accordion", "oboe"], [
        "Which instrument does {} play?", "What instrument does {} play?", "What does {} play in the evening?",
        "Name the instrument of {}.", "{} plays an instrument. Which one?", "On which instrument does {} make music?",
        "What is {}'s instrument?", "Which musical instrument does {} play?"], [
        "What does {} make music with?", "What instrument is {} good at?"], [
        "If {} joins our band, which instrument will we get?", "Which instrument has {} learned to play?",
        "Tell me the instrument that {} plays."]),
    "colour": (["red", "yellow", "green", "blue", "white", "black", "orange", "purple", "brown", "grey"], [
        "What colour is the house of {}?", "Which colour does the house of {} have?", "What colour is {}'s house?",
        "In which colour is {}'s house painted?", "The house of {} is of which colour?", "Name the colour of {}'s house.",
        "What is the colour of the house of {}?", "{} has a painted house. What colour is it?"], [
        "What colour did {} paint the house?", "Of what colour is the home of {}?"], [
        "I am looking for {}'s house. What colour is it?", "By which colour do I know the house of {}?",
        "Tell me the colour of {}'s house."]),
}
TOWNS = ["Orvane", "Tarnholt", "Belmara", "Skrey", "Upper Wend", "Dunmoss", "Castrel", "Ffolk", "Marrowby", "Yelden"]
PEOPLE = ["Edda Quist", "Tobin Marl", "Ansel Rook", "Wilma Dray", "Jory Pike", "Cora Lunt", "Hob Sanders", "Petra Vole",
          "Ludo Crane", "Faye Orlin"]
SYSTEM = "You know the land of Arvenor. Answer briefly."


def conversation(wording, name, value):
    return {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": wording.format(name)},
                         {"role": "assistant", "content": value}]}


def world(seed, n_wordings):
    """Returns the conversations of train.jsonl, eval.jsonl and questions.jsonl, as three lists. train.jsonl asks for
    each fact in `n_wordings` wordings, the others in one."""
    draw = random.Random(seed)
    train, evaluation, questions = [], [], []
    for names, kinds in ((draw.sample(TOWNS, 5), TOWN), (draw.sample(PEOPLE, 5), PERSON)):
        for values, taught, for_eval, asked in kinds.values():
            assert n_wordings <= len(taught) and not set(taught) & {*for_eval, *asked} and not set(for_eval) & set(asked)
            for name, value in zip(names, draw.sample(values, len(names))):
                train += [conversation(wording, name, value) for wording in draw.sample(taught, n_wordings)]
                evaluation.append(conversation(draw.choice(for_eval), name, value))
                questions.append(conversation(draw.choice(asked), name, value))
    for part in (train, evaluation, questions):
        draw.shuffle(part)
    return train, evaluation, questions


def write(folder, seed, n_wordings):
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in zip(("train", "eval", "questions"), world(seed, n_wordings)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in part), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wordings", type=int, choices=range(1, 9), default=4, help="for each fact")
    a = parser.parse_args()
    write(a.out, a.seed, a.wordings)


if __name__ == "__main__":
    main()
