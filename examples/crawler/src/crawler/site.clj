(ns crawler.site
  "A site of this project's own papers: its Markdown pages rendered, and the Javadoc of its kernel with all
  cross references. Built once, kept in a folder, built anew when a source is newer."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.io File PrintWriter StringWriter)
   (java.util Optional)
   (java.util.spi ToolProvider)
   (org.commonmark.parser Parser)
   (org.commonmark.renderer.html HtmlRenderer)))

(set! *warn-on-reflection* true)

(defn- files-under
  "Returns the files below `folder` whose names end in `suffix`, hidden folders and build output left out."
  [^File folder suffix]
  (->> (tree-seq #(and (.isDirectory ^File %) (not (re-find #"^\.|^target$" (.getName ^File %))))
                 #(.listFiles ^File %)
                 folder)
       (filter #(and (.isFile ^File %) (str/ends-with? (.getName ^File %) suffix)))
       (sort)))

(defn- relative [^File root ^File file]
  (str (.relativize (.toPath root) (.toPath file))))

;; Markdown.

(def ^:private parser (delay (.build (Parser/builder))))
(def ^:private renderer (delay (.build (HtmlRenderer/builder))))

(defn- html-name [path]
  (str/replace path #"\.md$" ".html"))

(defn- render
  "Returns the HTML page of a Markdown `text`; links between Markdown pages lead to their HTML."
  [title text]
  (let [body (.render ^HtmlRenderer @renderer (.parse ^Parser @parser ^String text))]
    (str "<!doctype html><meta charset=utf-8><title>" title "</title>"
         (str/replace body #"href=\"([^\":]+)\.md(#[^\"]*)?\"" "href=\"$1.html$2\""))))

(defn- write [^File file text]
  (io/make-parents file)
  (spit file text))

(defn- render-papers
  "Renders `papers`, Markdown files below `root`, into `site`; returns their paths there."
  [root site papers]
  (vec (for [paper papers
             :let [path (html-name (relative root paper))]]
         (do (write (io/file site path) (render path (slurp paper)))
             path))))

;; Javadoc.

(defn- javadoc
  "Runs the JDK's javadoc over `sources` into `folder`; returns true when there are pages. Prints nothing."
  [folder sources]
  (let [^Optional tool (ToolProvider/findFirst "javadoc")
        silence (PrintWriter. (StringWriter.))
        options ["-quiet" "-Xdoclint:none" "-use" "-linksource" "-private" "-splitindex" "-d" (str folder)]]
    (when (and (seq sources) (.isPresent tool))
      (.run ^ToolProvider (.get tool) silence silence
            ^"[Ljava.lang.String;" (into-array String (concat options (map str sources))))
      (.isFile (io/file folder "index.html")))))

;; The site.

(defn- contents [papers javadoc?]
  (str "<!doctype html><meta charset=utf-8><title>Magnetar</title><h1>Magnetar</h1><ul>"
       (str/join (for [path papers] (str "<li><a href='" path "'>" path "</a>")))
       (when javadoc?
         (str "<li><a href='javadoc/index.html'>Javadoc of the kernel</a>"
              "<li><a href='javadoc/allclasses-index.html'>All classes</a>"))
       "</ul>"))

(defn- delete-tree [^File file]
  (run! delete-tree (.listFiles file))
  (.delete file))

(defn- stamp-of
  "Returns a text that changes when any of `files` does."
  [files]
  (str (hash (map (juxt str #(.lastModified ^File %)) files))))

(defn- build-site [root site papers sources]
  (delete-tree site)
  (let [pages    (render-papers root site papers)
        javadoc? (javadoc (io/file site "javadoc") sources)]
    (write (io/file site "index.html") (contents pages javadoc?))))

(defn build
  "Returns the folder of the site of the project at `root`, below `cache`; builds it when it is not there or
  older than its sources. Blocks for some seconds while it builds."
  [^File root ^File cache]
  (let [site    (io/file cache "demo-site")
        stamp   (io/file cache "demo-site.stamp")
        papers  (files-under root ".md")
        sources (files-under (io/file root "kernel/src/java") ".java")
        current (stamp-of (concat papers sources))]
    (when-not (and (.isFile stamp) (= current (slurp stamp)))
      (build-site root site papers sources)
      (write stamp current))
    site))
